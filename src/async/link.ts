/** A member of a ring of links; alone, it is linked with itself. Taking one out of the middle needs no search. */
export class Link {
  previous: Link = this;
  next: Link = this;

  unlink(): void {
    this.previous.next = this.next;
    this.next.previous = this.previous;
    // In the old generation, a link that has left would keep the next one alive, and that one the rest.
    this.previous = this;
    this.next = this;
  }

  /** Links this one, which is alone, in front of another. */
  linkBefore(other: Link): void {
    this.previous = other.previous;
    this.next = other;
    this.previous.next = this;
    other.previous = this;
  }
}
